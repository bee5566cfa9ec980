"""`mosquitto_sub` and `mosquitto_pub` by paho, MQTT 3.1.1, for machines without them."""

from __future__ import annotations

import argparse
import sys

import paho.mqtt.client as mqtt


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["mosquitto_sub", "mosquitto_pub"])
    parser.add_argument("-p", type=int, default=1883)
    parser.add_argument("-t", required=True)
    parser.add_argument("-m", default="")
    parser.add_argument("-d", action="store_true")
    given = parser.parse_args()
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv311)
    client.on_subscribe = lambda *_: print("Subscribed", flush=True)
    client.on_message = lambda _c, _u, message: print(message.payload.decode(), flush=True)
    client.connect("127.0.0.1", given.p)
    if given.what == "mosquitto_sub":
        client.subscribe(given.t)
        client.loop_forever()
    else:
        client.loop_start()
        client.publish(given.t, given.m, qos=1).wait_for_publish(30)
        client.disconnect()


if __name__ == "__main__":
    sys.exit(main())
