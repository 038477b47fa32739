import assert from 'node:assert/strict'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { gunzipSync, gzipSync } from 'node:zlib'
import { declaredKinds } from '../support/event-kinds.ts'
import type { GoldenEvent } from './history.ts'
import { makeEvents } from './make.ts'
import { type GoldenTables, replay } from './replay.ts'

/**
 * Each folder contains the events of a release, and the read tables that they fold into. Events are
 * permanent, so events of an old release must read the same in every later one. Never regenerate the events
 * of a published release: an event with a changed form gets an upcaster (src/platform/eventstore/codec.ts),
 * and this test checks it. A release that adds or changes events adds a folder: `FAREBOX_GOLDEN=make` with
 * the new version in package.json. Before that version is published, its folder is deleted and regenerated
 * when its events change. Only an intended change of a read model changes `read-models.json.gz` of old releases:
 * `FAREBOX_GOLDEN=fold`.
 */
const root = join(import.meta.dirname, '../..')
const here = import.meta.dirname
const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string }
const mode = process.env.FAREBOX_GOLDEN

const lines = (events: readonly GoldenEvent[]): string =>
  events.map((event) => `${JSON.stringify(event)}\n`).join('')
/** Newer tables have no rows of a release's events; they are not stored with it. */
const rowLines = (tables: GoldenTables): string => {
  const filled = Object.entries(tables).filter(([name, rows]) => rows.length > 0 || name.startsWith('open_'))
  return `${JSON.stringify(Object.fromEntries(filled), null, 1)}\n`
}

const eventsFile = (release: string): string => join(here, release, 'events.jsonl.gz')
const rowsFile = (release: string): string => join(here, release, 'read-models.json.gz')
const unzipped = async (file: string): Promise<string> => gunzipSync(await readFile(file)).toString()

const eventsOf = async (release: string): Promise<GoldenEvent[]> =>
  (await unzipped(eventsFile(release)))
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))

if (mode === 'make') {
  await mkdir(join(here, version))
  await writeFile(eventsFile(version), gzipSync(lines(await makeEvents())), { flag: 'wx' })
}

const releases = (await readdir(here, { withFileTypes: true }))
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)

describe('events of every release', () => {
  for (const release of releases)
    test(`of ${release} fold into the same read tables as before`, async (t) => {
      const tables = await replay(t, await eventsOf(release))
      if (mode === 'fold' || (mode === 'make' && release === version))
        await writeFile(rowsFile(release), gzipSync(rowLines(tables)))
      const stored = JSON.parse(await unzipped(rowsFile(release))) as GoldenTables
      // Tables newer than the release are built from its events too, and are stored with the next one.
      const missing = Object.keys(stored).filter((name) => !Object.hasOwn(tables, name))
      assert.deepEqual(missing, [], 'tables of the release that are gone')
      for (const [name, rows] of Object.entries(stored)) {
        assert.ok(rows.length > 0 || name.startsWith('open_'), `the events leave no row in ${name}`)
        assert.deepEqual(tables[name], rows, name)
      }
    })

  for (const release of releases)
    test(`those of ${release} fold into the same rows when each event loads its own rows`, async (t) => {
      const events = await eventsOf(release)
      assert.deepEqual(await replay(t, events, 'forgetful'), await replay(t, events))
    })

  test('cover every event type in the code', async () => {
    const named = declaredKinds()
    assert.ok(named.size > 80, `${named.size} types are found`)
    const covered = new Set((await Promise.all(releases.map(eventsOf))).flat().map(({ type }) => type))
    const missing = [...named].filter((type) => !covered.has(type)).sort()
    assert.deepEqual(missing, [], 'events that no golden file has: add them to make.ts and make the folder')
  })

  test('are written by this release as its folder has them', async () => {
    if (!releases.includes(version)) return
    assert.deepEqual(
      JSON.parse(JSON.stringify(await makeEvents())),
      await eventsOf(version),
      `what is written has changed: it needs a new version, or, while ${version} is not out, its folder regenerated`,
    )
  })
})
