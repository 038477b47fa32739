import manifest from '../../package.json' with { type: 'json' }

/** Lines to add to a file, and where. */
export type Step = readonly [file: string, place: string, ...lines: readonly string[]]

export type Kind = {
  readonly about: string
  /** The created files, each with a template of the same path. */
  readonly files: readonly string[]
  /** Further work, in order. */
  readonly steps: readonly Step[]
}

const imports = 'with the imports'
/** Below the first line that begins with a text. */
const below = (text: string): string => `below "${text}"`

const service = 'src/features/sample-area/sample-thing-service.ts'
const feature = 'src/features/sample-area/feature.ts'
const coverage = 'docs/finance/unchecked-fields.md'
const decision = 'docs/decisions/0075-verification-decides-events-again.md'

/** The kinds of `npm run new`. `new.ts` replaces the placeholders `sample-area` and `sample-thing`. */
export const kinds: Readonly<Record<string, Kind>> = {
  event: {
    about: 'an event of an account, its fold and its decision',
    files: ['src/domain/sample-area/sample-thing.ts', 'test/domain/sample-area/sample-thing.test.ts'],
    steps: [
      [
        'src/kernel/streams.ts',
        below('export const accountStream ='),
        `export const sampleThingStream = (account: AccountId): StreamName => streamName(\`samplething-\${account}\`)`,
      ],
      ['src/kernel/streams.ts', below("'account-': 'account',"), "'samplething-': 'account',"],
      [
        'src/domain/events.ts',
        imports,
        "import { sampleThingEventDefinitions } from './sample-area/sample-thing.ts'",
      ],
      ['src/domain/events.ts', below('...accountEventDefinitions,'), '...sampleThingEventDefinitions,'],
      [
        'test/golden/make.ts',
        imports,
        "import { decideSampleThing, sampleThingRef } from '../../src/domain/sample-area/sample-thing.ts'",
      ],
      [
        'test/golden/make.ts',
        below('makeGatewayChanges(history)'),
        "fact(sampleThingRef(buyer).stream, ...eventsOf(decideSampleThing(null, 'golden')))",
      ],
      [
        decision,
        below('| `NoticePublished`, `NoticeExpired` | read tables |'),
        '| `SampleThingSet` | read tables |',
      ],
      [coverage, below('| `MarkupChanged` | `markupMillionths` |'), '| `SampleThingSet` | `value` |'],
      [coverage, below('| `(doubled)` |'), '| `(removed)`, `(doubled)`, `(moved)` | `SampleThingSet` |'],
      [
        `test/golden/${manifest.version}`,
        'written again, unless this version is published',
        `rm -r test/golden/${manifest.version} && FAREBOX_GOLDEN=make npm test -- test/golden/golden`,
      ],
    ],
  },
  'read-model': {
    about: 'a table of the newest values, and a query',
    files: ['projections/sample-thing.ts', 'test/projections/sample-thing.test.ts'],
    steps: [
      ['projections/groups.ts', imports, "import { sampleThing } from './sample-thing.ts'"],
      ['projections/groups.ts', below('proposals,'), 'sampleThing,'],
      ['src/app/app-commands.ts', 'in the list of read models, after "proposals, "', 'sample-thing,'],
    ],
  },
  route: {
    about: 'two operations of the API, which read and set it',
    files: [
      'src/features/sample-area/sample-thing-routes.ts',
      service,
      'test/features/sample-area/sample-thing-routes.test.ts',
    ],
    steps: [
      [feature, imports, "import { sampleThingRoutes } from './sample-thing-routes.ts'"],
      [feature, 'in the array `routes` that `open` returns', '...sampleThingRoutes(core),'],
      [
        'test/contract/requests.ts',
        below('getMe:'),
        `getSampleThing: { method: 'GET', path: \`\${v1}/sample-thing\` },`,
        `updateSampleThing: { method: 'PATCH', path: \`\${v1}/sample-thing\`, json: { value: 'example' } },`,
      ],
      ['test/contract/codes.test.ts', below("'cancelSubscription',"), "'updateSampleThing',"],
    ],
  },
  command: {
    about: 'a command of operators, which sets it',
    files: [
      'src/features/sample-area/sample-thing-commands.ts',
      'src/features/sample-area/run-sample-thing-command.ts',
      service,
      'test/features/sample-area/sample-thing-commands.test.ts',
    ],
    steps: [
      [
        'src/features/sample-area/commands.ts',
        imports,
        "import { sampleThingCommands } from './sample-thing-commands.ts'",
      ],
      ['src/features/sample-area/commands.ts', below('export const commands = ['), '...sampleThingCommands,'],
      [
        'src/app/commands.ts',
        'if `sample-area` is a new first word of commands',
        "['sample-area', 'what its commands do', load],",
      ],
    ],
  },
  page: {
    about: 'a page of the console with a form',
    files: [
      'src/features/sample-area/sample-thing-pages.ts',
      service,
      'test/features/sample-area/sample-thing-pages.test.ts',
    ],
    steps: [
      [feature, imports, "import { sampleThingPages } from './sample-thing-pages.ts'"],
      [feature, 'in the array `pages` that `open` returns', '...sampleThingPages(core),'],
      [
        'src/app/pages.ts',
        below("{ label: 'API keys'"),
        "{ label: 'Sample thing', page: 'showSampleThing' },",
      ],
      ['test/features/console/browser.test.ts', below("'/console/keys',"), "'/console/sample-thing',"],
    ],
  },
  invariant: {
    about: 'a rule for its events, which `ledger verify` checks',
    files: [
      'src/audit/invariants/sample-thing-invariant.ts',
      'test/audit/invariants/sample-thing-invariant.test.ts',
    ],
    steps: [
      [
        'src/audit/invariants/invariants.ts',
        imports,
        "import { sampleThingRules } from './sample-thing-invariant.ts'",
      ],
      ['src/audit/invariants/invariants.ts', below('deliveryRules,'), 'sampleThingRules,'],
      [decision, 'in place of `read tables`', '| `SampleThingSet` | `sample-thing` |'],
      [coverage, 'without `(doubled)`', '| `(removed)`, `(moved)` | `SampleThingSet` |'],
    ],
  },
  setting: {
    about: 'the first setting of a feature',
    files: ['src/features/sample-area/settings.ts', 'test/features/sample-area/settings.test.ts'],
    steps: [
      [
        'src/app/config.ts',
        imports,
        'import {',
        '  type SampleThingConfig,',
        '  sampleThingConfigOf,',
        '  sampleThingSettings,',
        "} from '../features/sample-area/settings.ts'",
      ],
      ['src/app/config.ts', below('...consoleSettings,'), '...sampleThingSettings,'],
      ['src/app/config.ts', below('readonly console:'), 'readonly sampleThing: SampleThingConfig'],
      ['src/app/config.ts', below('console: consoleConfigOf('), 'sampleThing: sampleThingConfigOf(values),'],
      ['src/app/features.ts', 'where the feature is opened', 'config.sampleThing'],
    ],
  },
}
