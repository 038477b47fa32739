import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { linkLibraries } from '../../../src/platform/postgres/binaries.ts'
import { atEnd } from '../../support/cleanup.ts'

test('missing library links are created once, and a package without a list needs none', async (t) => {
  const at = mkdtempSync(join(tmpdir(), 'farebox-links-'))
  atEnd(t, () => rmSync(at, { recursive: true }))
  const native = join(at, 'native')
  await linkLibraries(native)
  mkdirSync(join(native, 'lib'), { recursive: true })
  writeFileSync(join(native, 'lib/libpq.so.5.18'), 'library')
  const links = [{ source: 'native/lib/libpq.so.5.18', target: 'native/lib/libpq.so.5' }]
  writeFileSync(join(native, 'pg-symlinks.json'), JSON.stringify(links))
  for (const _ of [1, 2]) await linkLibraries(native)
  assert.equal(readlinkSync(join(native, 'lib/libpq.so.5')), 'libpq.so.5.18')
  assert.equal(readFileSync(join(native, 'lib/libpq.so.5'), 'utf8'), 'library')
  rmSync(join(native, 'lib'), { recursive: true })
  await assert.rejects(linkLibraries(native), /needs the link .*libpq\.so\.5.*run npm ci again/)
})
