"""Options and their layers."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from aotdyn import config
from aotdyn.errors import ConfigError


@pytest.fixture(autouse=True)
def _fresh(monkeypatch, tmp_path):
    for variable in config._VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.delitem(sys.modules, "torch._dynamo.config", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    config.reset()
    yield
    config.reset()


def test_defaults():
    assert config.current() == config.Options()


def test_layers_in_order(monkeypatch, tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        '[tool.aotdyn]\nrecompile_limit = 2\nmax_nodes = 3\ncache_dir = "c"\ncapture-scalar-outputs = true'
    )
    config.use_project(None)
    assert config.current().recompile_limit == 2
    assert config.current().capture_scalar_outputs
    assert config.current().cache_dir == str(tmp_path / "c")
    torch_config = SimpleNamespace(recompile_limit=4, specialize_int=False, capture_scalar_outputs=False)
    monkeypatch.setitem(sys.modules, "torch._dynamo.config", torch_config)
    assert config.current().recompile_limit == 4
    assert config.current().capture_scalar_outputs, "torch's default says nothing"
    monkeypatch.setenv("AOTDYN_RECOMPILE_LIMIT", "5")
    assert config.current().recompile_limit == 5
    with config.overrides(recompile_limit=6) as options:
        assert options.recompile_limit == config.current().recompile_limit == 6
    assert config.current().recompile_limit == 5
    assert config.current().max_nodes == 3


def test_torchs_own_config_is_a_layer():
    import torch._dynamo.config as torch_config

    assert config.current() == config.Options(), "its defaults are ours"
    with torch_config.patch(cache_size_limit=3, specialize_int=True, assume_static_by_default=False):
        options = config.current()
    assert (options.recompile_limit, options.specialize_int, options.assume_static_by_default) == (3, True, False)


def test_nearest_pyproject_with_a_table_counts(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.aotdyn]\nmax_nodes = 7")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'other'")
    config.use_project(inner)
    assert config.current().max_nodes == 7


@pytest.mark.parametrize(
    ("variable", "text", "parts"),
    [
        ("AOTDYN_RECOMPILE_LIMIT", "many", ["AOTDYN_RECOMPILE_LIMIT", "'many'", "whole number"]),
        ("AOTDYN_RECOMPILE_LIMIT", "0", ["above 0"]),
        ("AOTDYN_STRICT", "perhaps", ["'perhaps'", "true"]),
        ("AOTDYN_LOG", "guards,noise", ["noise", "recompiles"]),
        ("AOTDYN_MAX_SECONDS", "nan", ["number above 0"]),
    ],
)
def test_wrong_value_names_key_value_and_what_is_allowed(monkeypatch, variable, text, parts):
    monkeypatch.setenv(variable, text)
    with pytest.raises(ConfigError) as caught:
        config.current()
    assert all(part in str(caught.value) for part in parts), caught.value


def test_unknown_keys_are_named(tmp_path):
    with pytest.raises(ConfigError, match=r"recompile_limits.*\n.*\n.*did you mean recompile_limit"):
        config.configure(recompile_limits=3)
    (tmp_path / "pyproject.toml").write_text("[tool.aotdyn]\nbackends = 'eager'")
    config.use_project(None)
    with pytest.raises(ConfigError, match=r"backends(.|\n)*pyproject.toml(.|\n)*backend"):
        config.current()


def test_a_project_cannot_lift_the_caches_protection(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.aotdyn]\ncache_trust = true")
    config.use_project(None)
    with pytest.raises(ConfigError, match="AOTDYN_CACHE_TRUST"):
        config.current()


def test_lists_come_with_commas_or_as_lists(monkeypatch):
    monkeypatch.setenv("AOTDYN_PACKAGES", "a, b.*,")
    assert config.current().packages == ("a", "b.*")
    with config.overrides(packages=["c", "d,e"]) as options:
        assert options.packages == ("c", "d", "e")


def test_a_failed_configure_changes_nothing():
    config.configure(max_nodes=5)
    with pytest.raises(ConfigError):
        config.configure(max_nodes=6, strict="no idea")
    assert config.current().max_nodes == 5
    config.configure(max_nodes=None)
    assert config.current().max_nodes == config.Options().max_nodes


def test_options_key_covers_what_changes_tracing_and_nothing_else():
    plain = config.options_key(config.Options())
    assert config.options_key(config.Options(backend="eager", strict=True, cache_dir="/x")) == plain
    keys = {config.options_key(config.Options(**{name: 3})) for name in config.TRACING}
    assert len(keys) == len(config.TRACING)
    assert plain not in keys


def test_cache_root(monkeypatch, tmp_path):
    monkeypatch.setenv("AOTDYN_CACHE_DIR", "here")
    assert config.cache_root() == tmp_path / "here"
    with config.overrides(cache_dir="/there"):
        assert str(config.cache_root()) == "/there"
    with config.overrides(cache=False):
        assert config.cache_root() is None
