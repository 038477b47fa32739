import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { newSecret, signedRequest } from '../../src/features/webhooks/deliver.ts'

const page = readFileSync(join(import.meta.dirname, '../../docs/guides/webhooks.md'), 'utf8')

const codeOf = (language: string): string =>
  new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``).exec(page)?.[1] ??
  assert.fail(`no ${language} in the page`)

/**
 * How a program of the language runs the page's function on texts, three for each call, and prints `true` or `false` for
 * each call.
 */
const languages = [
  {
    name: 'js',
    command: process.execPath,
    file: 'verify.mjs',
    program: (code: string) =>
      `${code}
const texts = process.argv.slice(2)
for (let at = 0; at < texts.length; at += 3)
  console.log(verify(Buffer.from(texts[at], 'base64'), texts[at + 1], texts[at + 2]))`,
  },
  {
    name: 'python',
    command: 'python3',
    file: 'verify.py',
    program: (code: string) =>
      `${code}
import base64, sys
for at in range(1, len(sys.argv), 3):
    print(str(verify(base64.b64decode(sys.argv[at]), sys.argv[at + 1], sys.argv[at + 2])).lower())`,
  },
  {
    name: 'php',
    command: 'php',
    file: 'verify.php',
    program: (code: string) =>
      `<?php
${code}
for ($at = 1; $at < count($argv); $at += 3)
  echo verify(base64_decode($argv[$at]), $argv[$at + 1], $argv[$at + 2]) ? 'true' : 'false', "\\n";`,
  },
  {
    name: 'java',
    command: 'java',
    file: 'Verify.java',
    // The first class of the file is the one that runs.
    program: (code: string) => {
      const [imports = '', receiver = ''] = code.split(/^(?=class )/m)
      const main = `class Verify { public static void main(String[] a) throws Exception {
        for (int at = 0; at < a.length; at += 3) System.out.println(
          Receiver.verify(java.util.Base64.getDecoder().decode(a[at]), a[at + 1], a[at + 2])); } }`
      return `${imports}\n${main}\n${receiver}`
    },
  },
]

for (const { name, command, file, program } of languages) {
  const missing = spawnSync(command, ['--version']).error !== undefined
  const skip = missing && `${command} is not on this machine`
  test(`the page's verification in ${name} accepts signed payloads and refuses changed or old ones`, {
    skip,
  }, (t) => {
    const code = program(codeOf(name))
    const directory = mkdtempSync(join(tmpdir(), 'farebox-verify-'))
    t.after(() => rmSync(directory, { recursive: true }))
    const path = join(directory, file)
    writeFileSync(path, code)
    const secret = newSecret()
    const signed = (createdMs: number) => {
      const data = JSON.stringify({ title: 'Grüße 客户' })
      const message = { deliveryId: 'dlv_1', event: 'ping', resource: 'ping_1', data }
      const { body, headers } = signedRequest(message, { current: secret, previous: null }, createdMs)
      return { body, signature: headers['X-Service-Signature'] ?? '' }
    }
    const { body, signature } = signed(Date.now())
    const old = signed(Date.now() - 6 * 60_000)
    const otherPayload = Buffer.from(body.toString().replace('ping', 'pong'))
    const otherSignature = signature.replace(/^./, (digit) => (digit === '0' ? '1' : '0'))
    const calls = [
      [body, signature, secret, 'true'],
      [otherPayload, signature, secret, 'false'],
      [body, otherSignature, secret, 'false'],
      [body, '', secret, 'false'],
      [body, signature, newSecret(), 'false'],
      [old.body, old.signature, secret, 'false'],
    ] as const
    const texts = calls.flatMap(([body, signature, key]) => [body.toString('base64'), signature, key])
    const { stdout, stderr, status } = spawnSync(command, [path, ...texts], { encoding: 'utf8' })
    assert.equal(status, 0, stderr)
    assert.deepEqual(
      stdout.trim().split('\n'),
      calls.map(([, , , verified]) => verified),
    )
  })
}
