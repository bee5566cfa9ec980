"""The pipeline without Spark, for small inputs."""
