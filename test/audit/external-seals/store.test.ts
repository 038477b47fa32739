import assert from 'node:assert/strict'
import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { readConfig } from '../../../src/app/config.ts'
import { effectiveSettings } from '../../../src/app/settings-command.ts'
import type { Store } from '../../../src/platform/outgoing/object-store.ts'
import {
  parseStoreLocation,
  type StoreLocation,
  storeLocationText,
  writeOnceStore,
} from '../../../src/platform/outgoing/object-store.ts'
import {
  openStore,
  type StoreAccess,
  signedHeaders,
} from '../../../src/platform/outgoing/open-object-store.ts'
import { type KeeperServer, startKeeper, startS3 } from '../../support/s3-stand-in.ts'

const owner = {
  accessKey: 'AKFAREBOX',
  secretKey: 'secret/with+signs=',
  region: 'eu-test-1',
  bucket: 'seals',
}
const none: StoreAccess = { token: null, s3: null, allowPrivate: true }

const opened = async (t: TestContext, place: StoreLocation, access: StoreAccess = none): Promise<Store> => {
  const store = await openStore(place, access, Date.now)
  t.after(() => store.close())
  return store
}

const folder = async (t: TestContext): Promise<string> => {
  const path = await mkdtemp(join(tmpdir(), 'farebox-seals-'))
  t.after(() => rm(path, { recursive: true, force: true }))
  return path
}

const s3Place: StoreLocation = { kind: 's3', bucket: owner.bucket, prefix: 'shop.1/' }
const s3Access = (endpoint: string, secretKey = owner.secretKey): StoreAccess => ({
  ...none,
  s3: { endpoint, region: owner.region, accessKey: owner.accessKey, secretKey },
})

type Served = { readonly store: Store; readonly server: KeeperServer; readonly path: string }

/** The same store over each protocol, on a server with or without conditional writes. */
const served: Readonly<Record<string, (t: TestContext) => Promise<Served>>> = Object.fromEntries(
  (['yes', 'no', 'ignored'] as const).flatMap((conditions) => [
    [
      `S3, conditional writes: ${conditions}`,
      async (t: TestContext): Promise<Served> => {
        const server = await startS3(t, owner, conditions)
        return { store: await opened(t, s3Place, s3Access(`${server.url}/`)), server, path: '/seals/shop.1/' }
      },
    ],
    [
      `HTTP, conditional writes: ${conditions}`,
      async (t: TestContext): Promise<Served> => {
        const server = await startKeeper(t, 'letmein', conditions)
        const place = parseStoreLocation(`${server.url}/box`)!
        return { store: await opened(t, place, { ...none, token: 'letmein' }), server, path: '/box/' }
      },
    ],
  ]),
)

describe('a target for seals', () => {
  for (const [name, start] of Object.entries(served))
    test(`over ${name}: writes once, reads back, and recovers from faults`, async (t) => {
      const { store, server, path } = await start(t)
      assert.equal(await store.get('1.json'), null)
      assert.equal(await store.put('1.json', '{"ü":1}\n'), 'stored')
      assert.equal(server.files.get(`${path}1.json`), '{"ü":1}\n')
      assert.equal(await store.get('1.json'), '{"ü":1}\n')
      assert.equal(await store.put('1.json', '{"ü":1}\n'), 'stored')
      assert.equal(await store.put('1.json', 'another'), 'other')
      assert.equal(server.files.get(`${path}1.json`), '{"ü":1}\n')
      server.faults.push({ status: 503 }, { cut: 'before' }, { cut: 'after' })
      await assert.rejects(store.put('2.json', '2'), /^StoreFailed: it answered 503 \(SlowDown\)$/)
      await assert.rejects(store.put('2.json', '2'), /^StoreFailed: it gave no answer \(\w+\)$/)
      await assert.rejects(store.put('2.json', '2'), /^StoreFailed: it gave no answer/)
      assert.equal(await store.put('2.json', '2'), 'stored')
      assert.equal(await store.get('2.json'), '2')
    })

  for (const [name, start] of Object.entries(served))
    test(`over ${name}: ${name.endsWith('ignored') ? 'is found to overwrite' : 'is found to keep'} files`, async (t) => {
      const { store, server, path } = await start(t)
      const keeps = !name.endsWith('ignored')
      for (const time of ['the first time', 'again']) assert.equal(await store.keepsFiles(), keeps, time)
      if (keeps) assert.ok([...server.files.keys()].every((file) => file === `${path}farebox-probe`))
    })

  test('reports a file that another writer created during our upload', async () => {
    const files = new Map<string, string>()
    const store = writeOnceStore({
      get: async (name) => files.get(name) ?? null,
      create: async (name) => {
        files.set(name, 'theirs')
        return true
      },
      replace: async () => undefined,
      close: async () => undefined,
    })
    assert.equal(await store.put('1.json', 'ours'), 'other')
  })

  test('reports a wrong secret, token or bucket by its code, without any secret in the message', async (t) => {
    const s3 = await startS3(t, owner)
    const wrong = await opened(t, s3Place, s3Access(s3.url, 'not-the-secret'))
    await assert.rejects(wrong.put('1', '1'), (error: Error) => {
      assert.equal(error.message, 'it answered 403 (SignatureDoesNotMatch)')
      return !JSON.stringify([error.message, error.stack]).includes('not-the-secret')
    })
    const elsewhere = await opened(t, { ...s3Place, bucket: 'another' }, s3Access(s3.url))
    await assert.rejects(elsewhere.get('1'), /it answered 404 \(NoSuchBucket\)/)
    const keeper = await startKeeper(t, 'letmein')
    const unauthenticated = await opened(t, parseStoreLocation(keeper.url)!, { ...none, token: 'wrong' })
    await assert.rejects(unauthenticated.put('1', '1'), /^StoreFailed: it answered 401$/)
  })

  test('calls only public addresses over https, unless the settings allow others', async (t) => {
    const keeper = await startKeeper(t, 'letmein')
    const access = { ...none, token: 'letmein', allowPrivate: false }
    const plain = await opened(t, parseStoreLocation(keeper.url)!, access)
    await assert.rejects(plain.put('1', '1'), /not called: must start with https/)
    const inside = await opened(t, parseStoreLocation('https://10.0.0.1/seals')!, access)
    await assert.rejects(inside.put('1', '1'), /not called: must not point to a private or reserved address/)
    assert.deepEqual(keeper.requests, [])
  })

  test('as a folder: writes whole files, overwrites none, and creates no folder', async (t) => {
    const path = await folder(t)
    const store = await opened(t, { kind: 'folder', path })
    assert.equal(await store.get('1.json'), null)
    assert.equal(await store.put('1.json', 'one\n'), 'stored')
    assert.equal(await store.put('1.json', 'one\n'), 'stored')
    assert.equal(await store.put('1.json', 'two\n'), 'other')
    await writeFile(join(path, '.2.json.999.part'), 'ha') // the remains of a killed process
    assert.equal(await store.put('2.json', 'half no more\n'), 'stored')
    assert.equal(await readFile(join(path, '2.json'), 'utf8'), 'half no more\n')
    assert.deepEqual((await readdir(path)).filter((name) => !name.startsWith('.')).sort(), [
      '1.json',
      '2.json',
    ])
    await writeFile(join(path, '3.json'), 'x'.repeat(70_000))
    await assert.rejects(store.get('3.json'), /holds more than 65536 bytes/)
    const absent = await opened(t, { kind: 'folder', path: join(path, 'unmounted') })
    await assert.rejects(
      absent.put('1.json', '1'),
      /^StoreFailed: the folder .*unmounted cannot be found \(ENOENT\)$/,
    )
    await assert.rejects(absent.get('1.json'), /cannot be found/)
    assert.equal(await store.keepsFiles(), true)
    assert.equal(await store.keepsFiles(), true)
    // Two histories at the same time: one of them has the name.
    const both = await Promise.all(['a', 'b', 'c', 'd'].map((text) => store.put('4.json', text)))
    assert.equal(both.filter((outcome) => outcome === 'stored').length, 1)
    await chmod(path, 0o755)
  })

  test('is read from settings; a value with a secret or without a name is refused', () => {
    const names = {
      'file:/var/seals/': 'file:/var/seals',
      'file:///var/seals': 'file:/var/seals',
      'https://keeper.example': 'https://keeper.example/',
      'http://10.1.2.3:9000/a': 'http://10.1.2.3:9000/a/',
      's3://my-bucket': 's3://my-bucket/',
      's3://my.bucket/a//b/': 's3://my.bucket/a/b/',
    }
    for (const [text, name] of Object.entries(names)) {
      const place = parseStoreLocation(text)
      assert.equal(place && storeLocationText(place), name)
      assert.deepEqual(parseStoreLocation(name), place)
    }
    for (const text of [
      '',
      'seals',
      'file:seals',
      'file://host/seals',
      'ftp://a.example/',
      'https://user:pw@a.example/',
      'https://a.example/?sig=1',
      'https://a.example/#x',
      'https:a.example',
      's3://',
      's3://UPPER/a',
      's3://bucket/../other',
      's3://bucket/a b',
    ])
      assert.equal(parseStoreLocation(text), null, text)
  })

  test('signs requests as in the published examples of AWS Signature Version 4', async () => {
    const key = {
      accessKey: 'AKIAIOSFODNN7EXAMPLE',
      secretKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
      region: 'us-east-1',
    }
    const nowMs = Date.parse('2013-05-24T00:00:00Z')
    const host = 'https://examplebucket.s3.amazonaws.com'
    const signature = async (request: Parameters<typeof signedHeaders>[1]): Promise<string | undefined> =>
      (await signedHeaders(key, request, nowMs)).authorization?.split('Signature=')[1]
    assert.equal(
      await signature({ method: 'GET', url: `${host}/test.txt`, headers: { range: 'bytes=0-9' } }),
      'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
    )
    assert.equal(
      await signature({
        method: 'PUT',
        url: `${host}/test%24file.text`,
        headers: { date: 'Fri, 24 May 2013 00:00:00 GMT', 'x-amz-storage-class': 'REDUCED_REDUNDANCY' },
        body: 'Welcome to Amazon S3.',
      }),
      '98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
    )
  })
})

describe('the settings of the seal target', () => {
  const keys = { FAREBOX_SEAL_S3_ACCESS_KEY: 'AKSECRET', FAREBOX_SEAL_S3_SECRET_KEY: 'do-not-show' }
  const wrong: readonly (readonly [env: Record<string, string>, says: RegExp])[] = [
    [
      { FAREBOX_SEAL_TARGET: 'seals' },
      /FAREBOX_SEAL_TARGET: expected file:\/a\/folder, an address such as .*, or s3:/,
    ],
    [{ FAREBOX_SEAL_TARGET: 'https://me:do-not-show@a.example/' }, /got a value that is not shown/],
    [
      { FAREBOX_SEAL_TARGET: 's3://seals' },
      /s3:.* needs FAREBOX_SEAL_S3_ACCESS_KEY and FAREBOX_SEAL_S3_SECRET_KEY/,
    ],
    [{ FAREBOX_SEAL_TARGET: 'http://a.example/' }, /over plain http needs FAREBOX_SEAL_TARGET_PRIVATE=on/],
    [
      { ...keys, FAREBOX_SEAL_TARGET: 's3://seals', FAREBOX_SEAL_S3_ENDPOINT: 'http://minio:9000' },
      /FAREBOX_SEAL_S3_ENDPOINT over plain http needs/,
    ],
    [{ FAREBOX_SEAL_S3_SECRET_KEY: 'do-not-show' }, /are set together, or not at all/],
    [
      { FAREBOX_SEAL_TARGET_TOKEN: 'do not show' },
      /FAREBOX_SEAL_TARGET_TOKEN: expected .* got a value that is not shown/,
    ],
    [{ FAREBOX_SEAL_S3_ENDPOINT: 'https://a.example/path' }, /expected an address without a path/],
  ]
  for (const [env, says] of wrong)
    test(`refuse ${Object.keys(env).join(', ')}: ${says.source.slice(0, 40)}`, () => {
      assert.throws(
        () => readConfig(env),
        ({ message }: Error) => says.test(message) && !/do.not.show/.test(message),
      )
    })

  test('are accepted, and their secrets are never shown', () => {
    const env = {
      ...keys,
      FAREBOX_SEAL_TARGET: 's3://seals/shop',
      FAREBOX_SEAL_S3_ENDPOINT: 'http://minio:9000',
      FAREBOX_SEAL_TARGET_PRIVATE: 'on',
      FAREBOX_SEAL_TARGET_TOKEN: 'do-not-show',
    }
    const { sealTarget } = readConfig(env)
    assert.deepEqual(sealTarget.location, { kind: 's3', bucket: 'seals', prefix: 'shop/' })
    assert.deepEqual(readConfig({}).sealTarget.location, null)
    const shown = JSON.stringify(effectiveSettings(env))
    assert.match(shown, /s3:\/\/seals\/shop/)
    const refused = effectiveSettings({ FAREBOX_SEAL_TARGET: 'https://me:do-not-show@a.example/' })
    assert.ok(!JSON.stringify(refused).includes('do-not-show'))
    for (const secret of ['do-not-show', 'AKSECRET']) assert.ok(!shown.includes(secret), secret)
  })
})
