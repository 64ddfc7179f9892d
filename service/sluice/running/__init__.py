"""The service: it runs one pipeline or several, starts failed ones again, and watches a folder of files."""
