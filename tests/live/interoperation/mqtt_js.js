// node mqtt_js.js URL VERSION subscribe TOPIC QOS COUNT WHERE   prints COUNT payloads, a line each
// node mqtt_js.js URL VERSION publish TOPIC QOS COUNT           publishes "0", "1", ...
const mqtt = require("mqtt");
const [url, version, what, topic, qos, count, where] = process.argv.slice(2);
const client = mqtt.connect(url, { protocolVersion: Number(version), reconnectPeriod: 0 });
const properties = where ? { userProperties: { $where: where } } : undefined;

client.on("error", (error) => {
  console.error(String(error));
  process.exit(1);
});
client.on("connect", async () => {
  if (what === "subscribe") {
    let left = Number(count);
    client.on("message", (_, payload) => {
      console.log(payload.toString());
      if (--left === 0) client.end(false, () => process.exit(0));
    });
    // Members of groups are in nobody's tables: who has heard of the second has heard of the first.
    await client.subscribeAsync([topic, "known"], { qos: Number(qos), properties });
  } else {
    const sent = [];
    for (let number = 0; number < Number(count); number++) {
      const attributes = { userProperties: { x: String(number) } };
      const options = { qos: Number(qos), properties: version === "5" ? attributes : undefined };
      sent.push(client.publishAsync(topic, String(number), options));
    }
    await Promise.all(sent);
    client.end(false, () => process.exit(0));
  }
});
