"""Operations of a live broker: the admin port, metrics, logs, traces."""
