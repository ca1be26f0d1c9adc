/**
 * Prints what a process has loaded after an import of the module that the first argument names and, where a second one is given, after it
 * has connected with the store of that URL: the packages that are CommonJS, as all drivers and the Temporal SDK are, and native libraries.
 */
const [, , name, store] = process.argv;

const packageOf = (path) => /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1];

async function main() {
  const module = await import(name);
  const client = store && (await module.connect({ store }));
  const packages = Object.keys(require.cache).map(packageOf);
  const native = process.report
    .getReport()
    .sharedObjects.filter((file) => file.endsWith('.node'))
    .map(packageOf);
  if (client) await client.close();
  console.log(JSON.stringify([...new Set([...packages, ...native])].filter(Boolean).sort()));
}

void main();
