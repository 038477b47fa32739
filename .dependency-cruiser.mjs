/**
 * The import rules that biome.json cannot express; `npm run lint` checks both. biome.json says which layer may import
 * which. Here are the folders of three layers in order: a folder imports only folders that its list has before it. So
 * these folders never import each other in a circle.
 */

/** The folders of src: biome.json has a rule for each but app, which may import everything. */
const layers = ['kernel', 'domain', 'platform', 'features', 'gateway', 'audit', 'sandbox', 'app']

const platform = [
  'outgoing',
  'postgres',
  'vault',
  'eventstore',
  'commands',
  'work',
  'http',
  'ui',
  'cli',
  'projections',
  'feature',
  'api-docs',
]

const domain = [
  'shared',
  'accounts',
  'catalog',
  'stock',
  'plans',
  'payments',
  'resellers',
  'ledger',
  'orders',
  'subscriptions',
  'deposits',
  'exits',
  'free-list',
  'scrapers',
  'notices',
  'webhooks',
  'periods',
  'finance',
  'seals',
  'staff',
  'events.ts',
]

const features = [
  'accounts',
  'catalog',
  'stock',
  'payments',
  'wallet',
  'finance',
  'deposits',
  'orders',
  'resellers',
  'plans',
  'proxies',
  'subscriptions',
  'exits',
  'lines',
  'traffic-budgets',
  'scrapers',
  'notices',
  'webhooks',
  'free-list',
  'free-tools',
  'sign-in',
  'exports',
  'backup',
  'reconciliation',
  'approvals',
  'console',
]

/** @param comment what lint prints when the rule is broken; `from` and `to` say which imports are forbidden */
const forbid = (name, comment, from, to) => ({ name, comment, severity: 'error', from, to })

const pathOf = (folder, names) => `^${folder}/(${names.join('|')})(/|$)`

const listed = (folder, names) =>
  forbid(
    `${folder} is listed`,
    `.dependency-cruiser.mjs lists every folder of ${folder}, each after those that it imports.`,
    { path: `^${folder}/`, pathNot: pathOf(folder, names) },
    {},
  )

const ordered = (folder, names) =>
  names.map((name, at) =>
    forbid(
      `${folder}/${name} in order`,
      `${folder}/${name} imports from ${folder} only what .dependency-cruiser.mjs lists before it: ${names.slice(0, at).join(', ') || 'nothing'}.`,
      { path: pathOf(folder, [name]) },
      { path: `^${folder}/`, pathNot: pathOf(folder, names.slice(0, at + 1)) },
    ),
  )

export default {
  forbidden: [
    listed('src', [...layers, '[^/]+[.]ts']),
    listed('src/platform', platform),
    listed('src/domain', domain),
    listed('src/features', features),
    ...ordered('src/platform', platform),
    ...ordered('src/domain', domain),
    ...ordered('src/features', features),
    forbid(
      'features through index.ts',
      'Features, src/gateway, src/audit and src/sandbox import from another feature only its index.ts and for-commands.ts.',
      { path: '^src/(?:features/([^/]+)|gateway|audit|sandbox)/' },
      {
        path: '^src/features/',
        pathNot: ['^src/features/$1/', '^src/features/[^/]+/(index|for-commands)[.]ts$'],
      },
    ),
    forbid(
      'features from app',
      'src/app and the entry points import from a feature only index.ts, feature.ts, commands.ts, migrations.ts, settings.ts and process.ts.',
      { path: '^src/(app/|[^/]+$)' },
      {
        path: '^src/features/',
        pathNot: '^src/features/[^/]+/(index|feature|commands|migrations|settings|process)[.]ts$',
      },
    ),
    forbid(
      'entry points',
      'No file imports an entry point of a process (src/*.ts).',
      {},
      { path: '^src/[^/]+$' },
    ),
    forbid(
      'read models without I/O',
      'projections imports only kysely and types from packages: a read model opens no connection and no file.',
      { path: '^projections/' },
      {
        dependencyTypes: ['core', 'npm'],
        dependencyTypesNot: ['type-only'],
        pathNot: 'node_modules/kysely/',
      },
    ),
    forbid(
      'client of EventStoreDB',
      'Only src/platform/eventstore/eventstoredb imports the client of EventStoreDB.',
      { pathNot: '^src/platform/eventstore/eventstoredb/' },
      { path: '@eventstore/' },
    ),
  ],
  options: {
    // Reads imports of types as well. TypeScript 7 has no interface that dependency-cruiser could use.
    parser: 'swc',
    doNotFollow: { path: 'node_modules' },
  },
}
