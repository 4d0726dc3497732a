"""Files of other programs: import and export."""
