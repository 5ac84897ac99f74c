"""Every operator that torch's own database of samples knows, compiled and plain: `python -m tests.opinfo`."""
