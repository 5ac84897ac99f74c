"""Figures of a walk, and whether they agree with the table of exceptions."""

from __future__ import annotations

import fnmatch
from typing import Any

from .exceptions import BREAKS, DIFFERS
from .walk import Tally

EQUAL, CAPTURED = 0.98, 0.93
"The least shares of operators that must be equal, and captured whole as functions."


class Summary:
    """Gathers tallies."""

    def __init__(self) -> None:
        self.tallies: list[Tally] = []

    def add(self, tally: Tally) -> None:
        """One more operator."""
        self.tallies.append(tally)

    @staticmethod
    def line(tally: Tally) -> str:
        """An operator in one line, with more where it differs or breaks."""
        differs = [each for each in tally.outcomes if each.differs is not None]
        text = f"{tally.operator}: {len(tally.outcomes)} cases"
        if differs:
            text += f", {len(differs)} DIFFER, first {differs[0].case}:\n{differs[0].differs}"
        for reason, count in tally.reasons().items():
            forms = sorted({each.form for each in tally.outcomes if each.broke == reason})
            text += f"\n    {count} break ({', '.join(forms)}): {reason[:300]}"
        local = {fact for each in tally.outcomes for fact in each.local}
        return text + (f"\n    not stored: {', '.join(sorted(local))[:300]}" if local else "")

    def text(self) -> str:
        """The figures."""
        whole = len(self.tallies)
        cases = sum(len(each.outcomes) for each in self.tallies)
        lines = [f"{whole} operators, {cases} cases"]
        for label, forms in (
            ("as functions", ("function",)),
            ("as methods", ("method",)),
            ("in place", ("inplace",)),
            ("with out=", ("out",)),
            ("with out= that is resized", ("resized out",)),
            ("in every form", ()),
        ):
            having = [each for each in self.tallies if each.of(*forms)]
            equal = sum(each.equal(*forms) for each in having)
            captured = sum(each.captured(*forms) for each in having)
            share = 100 / max(len(having), 1)
            lines.append(
                f"{label}: {len(having)} operators, {equal} equal ({equal * share:.1f} %), "
                f"{captured} captured ({captured * share:.1f} %)"
            )
        return "\n".join(lines)

    def wrong(self, whole: bool) -> list[str]:
        """Where the walk and the table of exceptions disagree; one that isn't whole may not have met an exception."""
        found = []
        for tally in self.tallies:
            for what, holds, table in (
                ("captured", tally.captured("function"), BREAKS),
                ("equal", tally.equal(), DIFFERS),
            ):
                listed = any(fnmatch.fnmatchcase(tally.operator, pattern) for pattern in table)
                if holds and listed and whole and tally.of("function"):
                    found.append(f"{tally.operator} is {what}, though the table of exceptions lists it")
                if not holds and not listed:
                    found.append(f"{tally.operator} isn't {what}, and the table of exceptions doesn't list it")
        return found

    def verdict(self, whole: bool) -> int:
        """0 where the table is right and, of a whole walk, the shares are reached; says what isn't."""
        wrong = self.wrong(whole)
        if whole:
            count = len(self.tallies)
            shares = {
                "equal": (sum(each.equal() for each in self.tallies) / count, EQUAL),
                "captured": (sum(each.captured("function") for each in self.tallies) / count, CAPTURED),
            }
            wrong += [
                f"{share:.1%} {what}, less than {least:.0%}" for what, (share, least) in shares.items() if share < least
            ]
        print("\n".join(wrong) or "the table of exceptions is right")
        return int(bool(wrong))

    def data(self) -> list[dict[str, Any]]:
        """Every outcome that differs or breaks."""
        return [
            vars(outcome)
            for tally in self.tallies
            for outcome in tally.outcomes
            if outcome.differs is not None or outcome.broke is not None
        ]
