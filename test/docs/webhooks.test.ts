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

/** How a program of the language runs the page's function on four texts and prints `true` or `false`. */
const languages = [
  {
    name: 'js',
    command: process.execPath,
    file: 'verify.mjs',
    program: (code: string) =>
      `${code}\nconst [body, signature, secret] = process.argv.slice(2)\nconsole.log(verify(Buffer.from(body, 'base64'), signature, secret))`,
  },
  {
    name: 'python',
    command: 'python3',
    file: 'verify.py',
    program: (code: string) =>
      `${code}\nimport base64, sys\nprint(str(verify(base64.b64decode(sys.argv[1]), sys.argv[2], sys.argv[3])).lower())`,
  },
  {
    name: 'php',
    command: 'php',
    file: 'verify.php',
    program: (code: string) =>
      `<?php\n${code}\necho verify(base64_decode($argv[1]), $argv[2], $argv[3]) ? 'true' : 'false';`,
  },
  {
    name: 'java',
    command: 'java',
    file: 'Verify.java',
    // The first class of the file is the one that runs.
    program: (code: string) => {
      const [imports = '', receiver = ''] = code.split(/^(?=class )/m)
      const main = `class Verify { public static void main(String[] a) throws Exception {
        System.out.println(Receiver.verify(java.util.Base64.getDecoder().decode(a[0]), a[1], a[2])); } }`
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
    const verify = (body: Buffer, signature: string, key = secret): string => {
      const { stdout, stderr, status } = spawnSync(command, [path, body.toString('base64'), signature, key], {
        encoding: 'utf8',
      })
      assert.equal(status, 0, stderr)
      return stdout.trim()
    }
    const { body, signature } = signed(Date.now())
    assert.equal(verify(body, signature), 'true')
    assert.equal(verify(Buffer.from(body.toString().replace('ping', 'pong')), signature), 'false')
    assert.equal(
      verify(
        body,
        signature.replace(/^./, (digit) => (digit === '0' ? '1' : '0')),
      ),
      'false',
    )
    assert.equal(verify(body, ''), 'false')
    assert.equal(verify(body, signature, newSecret()), 'false')
    const old = signed(Date.now() - 6 * 60_000)
    assert.equal(verify(old.body, old.signature), 'false')
  })
}
