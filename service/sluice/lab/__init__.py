"""`sluice lab`: a local page on which pipeline files and events are tried out, with pictures of the windows."""
