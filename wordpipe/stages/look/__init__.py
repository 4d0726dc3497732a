"""Looking into artifacts: show, verify, plot, diff, map."""
