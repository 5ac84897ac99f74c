"""What is stored is found again, by another store and by another process, and by nobody whom it doesn't concern."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from aotdyn.errors import CacheError
from aotdyn.store import environment, records
from aotdyn.store.store import Store


def test_variants_come_back_in_order(store, root, make):
    for number in (3, 1, 2):
        assert store.save(make.breaking(number))
    assert not store.load(make.after)
    store.save(make.variant(9, make.after))
    again = Store(root, readonly=True)
    assert again.load(make.spec) == [make.breaking(3), make.breaking(1), make.breaking(2)]
    assert again.load(make.after) == [make.variant(9, make.after)]


def test_the_same_variant_is_stored_once(store, root, make, listed):
    assert store.save(make.breaking(1))
    assert store.save(make.breaking(1, code=b"marshalled otherwise"))
    assert Store(root).save(make.breaking(1))
    assert len(listed(root, "*.rec")) == 1
    assert len(store.load(make.spec)) == 1


def test_key_order_of_data_does_not_matter(make):
    one, two = ({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert records.identity(make.variant(one)) == records.identity(make.variant(two))


def test_process_local_variants_are_refused(store, root, make):
    assert not store.save(make.variant(process_local=["a lambda in a default"]))
    assert not store.save(make.variant(locals=[object()]))
    assert not root.exists()


def test_what_is_not_data_is_named(store, make):
    with pytest.raises(CacheError, match=r"app\.model\.Net\.forward"):
        store.save(make.variant(number=object()))


@pytest.mark.parametrize("field", ["module", "qualname", "digest", "offset", "params", "stack", "cells"])
def test_every_field_of_a_frame_is_in_its_key(store, make, field):
    from msgspec.structs import replace

    store.save(make.variant())
    value = 2 if field == "offset" else ("self", "y") if field in ("params", "cells") else "other"
    assert not store.load(replace(make.spec, **{field: value}))


def test_prune(store, make):
    store.save(make.variant(1))
    store.save(make.variant(2))
    (first, second) = store.load(make.spec)
    assert store.prune(make.spec, first)
    assert not store.prune(make.spec, first)
    assert store.load(make.spec) == [second]


def test_graphs_and_modules(store, root):
    assert store.graph("g1") is None
    assert store.save_graph("g1", b"graph")
    assert store.save_module("m1", b"")
    again = Store(root)
    assert again.graph("g1") == b"graph"
    assert again.module("m1") == b""
    assert again.module("g1") is None


def test_kernels(store, root, tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"so" * 1000)
    assert store.kernel_path("k1") is None
    saved = store.save_kernel("k1", {"kernel.so": other, "meta.json": b"{}"})
    assert saved == store.kernel_path("k1") == Store(root, readonly=True).kernel_path("k1")
    assert (saved / "kernel.so").read_bytes() == b"so" * 1000
    assert store.save_kernel("k1", {"kernel.so": b"later"}) == saved
    assert (saved / "kernel.so").read_bytes() == b"so" * 1000


@pytest.mark.parametrize("key", ["", ".", "..", "../x", "a/b", "a\0b", "x.tmp-1", "k" * 300])
def test_a_key_never_leads_out_of_the_cache(store, key):
    assert store.graph(key) is store.module(key) is store.kernel_path(key) is None
    with pytest.raises(ValueError, match="key"):
        store.save_graph(key, b"")
    with pytest.raises(ValueError, match="file"):
        store.save_kernel("k", {key: b""})


def test_no_cache(make):
    store = Store(None)
    assert not store.save(make.variant())
    assert not store.save_graph("g", b"")
    assert store.save_kernel("k", {}) is None
    assert store.load(make.spec) == []
    assert store.graph("g") is store.module("m") is store.kernel_path("k") is None


def test_readonly_changes_nothing(store, root, make, listed):
    store.save(make.variant())
    (file,) = listed(root, "*.rec")
    file.write_bytes(b"damaged")
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    reader = Store(root, readonly=True)
    assert reader.load(make.spec) == []
    assert not reader.save(make.variant(2))
    assert not reader.prune(make.spec, make.variant())
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_options_that_change_tracing_divide_the_cache(root, make):
    @dataclass
    class Options:
        key: str

        def tracing_key(self) -> str:
            return self.key

    Store(root, Options("a")).save(make.variant())
    assert Store(root, Options("b")).load(make.spec) == []
    assert Store(root, "a").load(make.spec)
    assert (
        environment.environment_key(None) == environment.environment_key("") == environment.environment_key(Options(""))
    )


def test_the_environment_is_the_same_before_torch_is_imported():
    code = "from aotdyn.store.environment import environment_key as k; a = k(); import torch; import aotdyn.store.environment as e; e.torch_version.cache_clear(); assert a == k(); print(a)"  # noqa: E501
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert out == environment.environment_key()


def test_default_dir(monkeypatch, tmp_path):
    monkeypatch.setenv("AOTDYN_CACHE_DIR", str(tmp_path / "x"))
    assert environment.default_dir() == tmp_path / "x"
    import platformdirs

    for base in ("", str(tmp_path), " "):
        monkeypatch.setenv("XDG_CACHE_HOME", base)
        assert environment.user_cache_dir() == Path(platformdirs.user_cache_dir("aotdyn"))


def test_the_warm_path_imports_little():
    code = (
        "import sys; import aotdyn.store.store; from pathlib import Path\n"
        "s = aotdyn.store.store.Store(Path('/nonexistent/x'), 'k'); s.graph('g')\n"
        "print(*{name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names)"
    )
    out = subprocess.run([sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}"],
                         capture_output=True, text=True, check=True).stdout  # fmt: skip
    extra = {name for name in out.split() if not name.startswith(("_", "__"))}
    assert extra <= {"aotdyn", "msgspec", "typing_extensions"}  # the last by msgspec; torch has it as well


def test_only_the_owner_can_read(store, root, make):
    old = os.umask(0)
    try:
        store.save(make.variant())
        store.save_kernel("k", {"a.so": b"x"})
    finally:
        os.umask(old)
    for path in (root, *root.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)


def test_a_file_system_that_takes_no_directories(caplog, make):
    for _ in range(2):
        assert not Store(Path("/proc/aotdyn/cache"), trust=True).save(make.breaking(1))
    assert len([record for record in caplog.records if "can't be written" in record.getMessage()]) == 1


def test_reading_asks_no_more_of_the_disk_where_the_store_is_full(store, make, monkeypatch):
    store.save_graph("g", b"graph")
    store.save_kernel("k", {"a.so": b"x"})
    store.save(make.variant(graph="g"))

    def asked() -> list[str]:
        told = []
        with monkeypatch.context() as patch:
            for name in ("open", "listdir", "scandir", "stat"):
                real = getattr(os, name)
                patch.setattr(os, name, lambda path, *rest, name=name, real=real: (
                    told.append(f"{name} {path}"), real(path, *rest))[1])  # fmt: skip
            assert len(store.load(make.spec)) == 1
            assert store.graph("g") == b"graph"
            assert store.kernel_path("k") is not None
        return told

    asked()  # the first reader of a process writes its lease
    alone = asked()
    for number in range(100):
        store.save(make.variant(spec=replace(make.spec, qualname=f"f{number}"), graph="g"))
        store.save_graph(f"g{number}", b"")
    assert asked() == alone
