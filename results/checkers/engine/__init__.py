"""Where tasks are carried out: in this process, or by Spark."""
