"""The old place of `ProgressDrawer`."""

from wordpipe.cli.output import ProgressDrawer as ProgressDrawer
