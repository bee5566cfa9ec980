"""The live driver: brokers on asyncio, their links over TCP, their listeners and operations."""
