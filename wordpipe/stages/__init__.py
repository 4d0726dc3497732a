"""One file per verb: open artifacts, call the cores, publish. `catalog` lists the verbs, `making` is the frame they share."""
