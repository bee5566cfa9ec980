// Subscribes with a lasting session at the first of these ports that answers: NAME PORT,PORT...
const mqtt = require("mqtt");

const [name, ports] = process.argv.slice(2);
const servers = ports.split(",").map((port) => ({ host: "127.0.0.1", port: Number(port), protocol: "mqtt" }));
const client = mqtt.connect({
  servers,
  clientId: name,
  clean: false,
  protocolVersion: 5,
  properties: { sessionExpiryInterval: 100000 },
  reconnectPeriod: 1000,
});
client.on("connect", (answer) => {
  if (!answer.sessionPresent) client.subscribe("site/#", { qos: 2 });
});
client.on("error", (error) => process.stderr.write(`${error.message}\n`));
client.on("message", (topic, payload) => process.stdout.write(`${topic} ${payload}\n`));
process.on("SIGTERM", () => client.end(false, {}, () => process.exit(0)));
