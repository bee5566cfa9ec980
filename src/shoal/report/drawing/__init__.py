"""Numbers, markup, charts and maps, which know nothing of brokers' runs."""
