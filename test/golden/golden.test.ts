import assert from 'node:assert/strict'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { declaredKinds } from '../support/event-kinds.ts'
import type { GoldenEvent } from './history.ts'
import { makeEvents } from './make.ts'
import { type GoldenTables, replay } from './replay.ts'

/**
 * Each folder holds the events that a release wrote, and the read tables that they fold into. Events are for ever, so
 * what an old release wrote must read the same in every later one. Never make the events of a release again once it is
 * out: an event that changes its shape gets an upcaster (src/platform/eventstore/codec.ts), and this test tells whether it works.
 * A release that adds or changes events adds a folder: `FAREBOX_GOLDEN=make` with the new version in package.json. While
 * that version is not out, its folder is deleted and made anew when its events change.
 * Only a read model that changes on purpose changes `read-models.json` of old releases: `FAREBOX_GOLDEN=fold`.
 */
const root = join(import.meta.dirname, '../..')
const here = import.meta.dirname
const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string }
const asked = process.env.FAREBOX_GOLDEN

const lines = (events: readonly GoldenEvent[]): string =>
  events.map((event) => `${JSON.stringify(event)}\n`).join('')
/** Tables that came after a release have no rows of its events; they are not kept with it. */
const rowLines = (tables: GoldenTables): string => {
  const filled = Object.entries(tables).filter(([name, rows]) => rows.length > 0 || name.startsWith('open_'))
  return `${JSON.stringify(Object.fromEntries(filled), null, 1)}\n`
}

const eventsOf = async (release: string): Promise<GoldenEvent[]> =>
  (await readFile(join(here, release, 'events.jsonl'), 'utf8'))
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))

if (asked === 'make') {
  await mkdir(join(here, version))
  await writeFile(join(here, version, 'events.jsonl'), lines(await makeEvents()), { flag: 'wx' })
}

const releases = (await readdir(here, { withFileTypes: true }))
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)

describe('events of every release', () => {
  for (const release of releases)
    test(`of ${release} fold into the same read tables as before`, async (t) => {
      const tables = await replay(t, await eventsOf(release))
      const file = join(here, release, 'read-models.json')
      if (asked === 'fold' || (asked === 'make' && release === version))
        await writeFile(file, rowLines(tables))
      const kept = JSON.parse(await readFile(file, 'utf8')) as GoldenTables
      // Tables that came after the release are made of its events too, and are kept with the next one.
      const missing = Object.keys(kept).filter((name) => !Object.hasOwn(tables, name))
      assert.deepEqual(missing, [], 'tables of the release that are gone')
      for (const [name, rows] of Object.entries(kept)) {
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
    const kept = new Set((await Promise.all(releases.map(eventsOf))).flat().map(({ type }) => type))
    const missing = [...named].filter((type) => !kept.has(type)).sort()
    assert.deepEqual(missing, [], 'events that no golden file has: add them to make.ts and make the folder')
  })

  test('are written by this release as its folder has them', async () => {
    if (!releases.includes(version)) return
    assert.deepEqual(
      JSON.parse(JSON.stringify(await makeEvents())),
      await eventsOf(version),
      `what is written has changed: it needs a new version, or, while ${version} is not out, its folder made anew`,
    )
  })
})
