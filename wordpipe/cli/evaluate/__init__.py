"""`wordpipe evaluate`: what is measured, as tables and JSON; one command for each kind of artifact."""
