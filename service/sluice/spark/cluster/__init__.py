"""What only a Spark cluster needs: the properties that give executors Python, and the executor of each bucket."""
