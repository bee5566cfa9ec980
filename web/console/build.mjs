// Bundles the console's pages into the package, and cuts the maps' outlines to what is drawn.
//
// node build.mjs [FOLDER]: FOLDER is src/shoal/console/static of the checkout without one.
import { build } from "esbuild";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { geoPath } from "d3-geo";
import { feature, mesh } from "topojson-client";

const here = dirname(fileURLToPath(import.meta.url));
const target = resolve(process.argv[2] ?? join(here, "../../src/shoal/console/static"));
await mkdir(target, { recursive: true });

await build({
  absWorkingDir: here,
  entryPoints: ["src/main.js", "src/console.css"],
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  outdir: target,
  legalComments: "linked",
});
await copyFile(join(here, "src/page.html"), join(target, "page.html"));

// us-atlas has drawn its outlines already; the world's are projected by the page.
const states = JSON.parse(await readFile(join(here, "node_modules/us-atlas/states-albers-10m.json"), "utf8"));
const draw = geoPath().digits(0);
await writeFile(join(target, "usa.json"), JSON.stringify({
  land: draw(feature(states, states.objects.nation)),
  borders: draw(mesh(states, states.objects.states, (one, other) => one !== other)),
}));
await copyFile(join(here, "node_modules/world-atlas/countries-110m.json"), join(target, "world.json"));
