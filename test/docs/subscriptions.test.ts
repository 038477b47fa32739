import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { atEnd } from '../support/cleanup.ts'
import { dataDirectory, type FareboxProcess, startFarebox } from '../support/farebox.ts'
import { ownPort } from '../support/own-port.ts'
import { blocksOf, pageOf, pageShell } from '../support/page-shell.ts'
import { seededDatabase } from '../support/seeded.ts'
import { until } from '../support/until.ts'

const root = join(import.meta.dirname, '../..')
const blocks = blocksOf(pageOf('docs/guides/subscriptions.md'))

/** `A=1 B=2 npm start` → its settings; null for another block. */
const settingsOf = (block: string): Record<string, string> | null => {
  if (!/^([A-Z_]+=\S+ )*npm start\n$/.test(block)) return null
  return Object.fromEntries([...block.matchAll(/([A-Z_]+)=(\S+)/g)].map(([, name, value]) => [name, value]))
}

/** Whether a listener accepts connections on this port of the machine. */
const answers = async (port: number): Promise<boolean> => {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } finally {
    socket.destroy()
  }
}

test('the walk through months of a subscription runs as the page describes', async (t) => {
  const env = await seededDatabase(t, await dataDirectory(t))
  const bash = await pageShell(t, { env })
  const receiverPort = await ownPort()
  let server: FareboxProcess | null = null
  let printed = ''
  // The variables of one block are there in the next, as in one terminal.
  let variables = ''
  const shell = async (text: string): Promise<string> => {
    const { stdout } = await bash(
      `${variables}\n${text}\necho "%%"; declare -p API ACCOUNT KEY BODY RENEWED STOPPED`,
    )
    const [out = '', exported = ''] = stdout.split('%%\n')
    variables = exported
    return out
  }
  const stand = (text: string): string => text.replaceAll('127.0.0.1:4000', `127.0.0.1:${receiverPort}`)

  let starts = 0
  let expectations = 0
  for (const block of blocks) {
    const settings = settingsOf(block)
    if (settings) {
      await server?.stop()
      server = await startFarebox(t, { ...env, LOG_LEVEL: 'warn', ...settings })
      for (const name of Object.keys(settings))
        assert.match(server.err(), new RegExp(`"level":40.*${name}`), `${name} is not in the log`)
      variables += `\nAPI=${server.baseUrl}/api/v1`
      starts += 1
      continue
    }
    if (block.startsWith('node -e')) {
      const child = spawn('bash', ['-c', `exec ${block.replace('4000', String(receiverPort))}`], {
        cwd: root,
      })
      child.stdout.on('data', (chunk) => {
        printed += chunk
      })
      atEnd(t, () => {
        child.kill('SIGKILL')
      })
      // A webhook that comes before the receiver listens is sent again half a minute later.
      await until(() => answers(receiverPort), { what: 'the receiver' })
      continue
    }
    const [plain, asks] = [stand(block).replace(/^API=.*\n/m, ''), block.includes('#')]
    if (!plain.startsWith('curl')) {
      const out = await shell(plain)
      assert.match(out, /"cancelAtPeriodEnd":true/)
      expectations += 1
      continue
    }
    assert.ok(asks)
    for (const line of plain.trimEnd().split('\n')) {
      const expected = /# (.*)$/.exec(line)?.[1] ?? assert.fail(`${line} says nothing of its answer`)
      await until(async () => (await shell(line)).includes(expected), {
        timeoutMs: 20_000,
        everyMs: 200,
        what: line,
      })
      expectations += 1
    }
  }
  assert.deepEqual([starts, expectations], [4, 7])
  const delivered = await until(
    () => {
      const events = [...printed.matchAll(/"event":"([a-z._]+)"/g)].map(([, event]) => event)
      return events.length >= 2 && events
    },
    { timeoutMs: 60_000, what: 'the webhooks' },
  )
  assert.deepEqual(delivered, ['subscription.canceled', 'subscription.expired'])
  await server?.stop()
})
