// node day.js URL NAME   does what neighbour.py says; a line for each thing: what, number or topic
// and payload.  When its input says "stop" it publishes no more, at its end it goes.
const mqtt = require("mqtt");
const [url, name] = process.argv.slice(2);
const client = mqtt.connect(url, { clientId: name, clean: false });
let isOver = false;

client.on("error", (error) => console.error(String(error)));
client.on("message", (topic, payload) => console.log("heard", topic, payload.toString()));
client.once("connect", async () => {
  await client.subscribeAsync("day/+/data", { qos: 1 });
  for (let number = 0; !isOver; number++) {
    await client.publishAsync(`day/${name}/data`, String(number), { qos: 1 });
    console.log("data", number);
    if (number % 5 === 0) {
      await client.publishAsync(`day/${name}/state`, String(number), { qos: 1, retain: true });
      console.log("state", number);
    }
    await new Promise((done) => setTimeout(done, 20));
  }
  console.log("over");
});
process.stdin.on("data", () => { isOver = true; });
process.stdin.on("end", () => process.exit(0));
