"""The commands of `python -m aotdyn`. Sits on top, beside `hook`, and may import every room."""
