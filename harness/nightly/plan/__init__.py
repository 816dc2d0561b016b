"""Which items a night has, what is known of their past, and which of them are chosen."""
