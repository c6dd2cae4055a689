"""Pure, total functions between our vocabulary and a scheduler's text: no processes, no files, no clocks."""
