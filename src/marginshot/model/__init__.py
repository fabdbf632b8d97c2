"""FS-TMMC and what `auto` adds, on one task: arrays in, arrays out."""
