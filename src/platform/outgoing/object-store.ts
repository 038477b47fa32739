import { randomUUID } from 'node:crypto'
import { isAbsolute, resolve } from 'node:path'

/** The location of a store of small files: a folder, an address that accepts PUT and GET, or a bucket. */
export type StoreLocation =
  /** Absolute. It must exist: a folder that is created automatically would hide a disk that is not mounted. */
  | { readonly kind: 'folder'; readonly path: string }
  /** Ends with a slash. */
  | { readonly kind: 'http'; readonly url: string }
  /** The prefix is empty or ends with a slash. */
  | { readonly kind: 's3'; readonly bucket: string; readonly prefix: string }

export const locationExpected =
  'file:/a/folder, an address such as https://keeper.example/seals/, or s3://bucket/prefix'

const folderOf = (text: string): StoreLocation | null => {
  const path = text.slice('file:'.length).replace(/^\/\/(?=\/)/, '')
  return isAbsolute(path) && !path.startsWith('//') && !path.includes('\0')
    ? { kind: 'folder', path: resolve(path) }
    : null
}

const httpOf = (text: string): StoreLocation | null => {
  const url = URL.parse(text)
  if (url === null || url.username !== '' || url.password !== '') return null
  if (url.search !== '' || url.hash !== '' || !/^https?:\/\/[^/\\]/i.test(text)) return null
  return { kind: 'http', url: url.href.endsWith('/') ? url.href : `${url.href}/` }
}

const bucketOf = (text: string): StoreLocation | null => {
  const [, bucket = '', path = ''] = /^s3:\/\/([^/]+)(?:\/(.*))?$/.exec(text) ?? []
  if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(bucket)) return null
  const parts = path.split('/').filter((part) => part !== '')
  if (!parts.every((part) => /^[A-Za-z0-9_.-]{1,200}$/.test(part) && !/^\.+$/.test(part))) return null
  return { kind: 's3', bucket, prefix: parts.map((part) => `${part}/`).join('') }
}

/** Null if the text is not a location. It must not contain secrets: user, password and query are rejected. */
export const parseStoreLocation = (text: string): StoreLocation | null => {
  if (text.length > 2_000) return null
  if (text.startsWith('file:')) return folderOf(text)
  if (text.startsWith('s3://')) return bucketOf(text)
  return httpOf(text)
}

/** The location as text for settings and messages. Equal locations have equal texts. */
export const storeLocationText = (storeLocation: StoreLocation): string => {
  switch (storeLocation.kind) {
    case 'folder':
      return `file:${storeLocation.path}`
    case 'http':
      return storeLocation.url
    case 's3':
      return `s3://${storeLocation.bucket}/${storeLocation.prefix}`
    default:
      return storeLocation satisfies never
  }
}

/** A store of small files that are written once. A file with other contents is reported and not changed. */
export type Store = {
  /**
   * `stored`: the store now has the file byte for byte, whether it was written now or before. `other`: the file has
   * other contents. The file is read before and after the write.
   * @throws StoreFailed
   */
  put(name: string, text: string): Promise<'stored' | 'other'>
  /** Null if there is no file with that name. @throws StoreFailed */
  get(name: string): Promise<string | null>
  /**
   * Whether an existing file survives a write that must only create a new file. The test writes a file that remains,
   * `probeName`.
   * @throws StoreFailed
   */
  keepsFiles(): Promise<boolean>
  close(): Promise<void>
}

/** The operations of one kind of store. Each throws StoreFailed. */
export type StoreOperations = Pick<Store, 'get' | 'close'> & {
  /**
   * Creates a file if there is none with that name; an existing file is not changed. False: the store does not
   * support this; nothing was written.
   */
  create(name: string, text: string): Promise<boolean>
  /** Writes a file and replaces an existing one. */
  replace(name: string, text: string): Promise<void>
}

/**
 * The store could not be reached or rejected the request. A retry may succeed. The message contains no secret and no
 * text of the server.
 */
export class StoreFailed extends Error {
  override readonly name = 'StoreFailed'
}

/** Without an extension, so that no pattern for the files of a store matches it. */
export const probeName = 'farebox-probe'

/** A store on top of the operations of its kind. */
export const writeOnceStore = ({ create, replace, get, close }: StoreOperations): Store => {
  const compare = async (name: string, text: string): Promise<'stored' | 'other' | null> => {
    const currentText = await get(name)
    if (currentText === null) return null
    return currentText === text ? 'stored' : 'other'
  }
  return {
    async put(name, text) {
      const before = await compare(name, text)
      if (before !== null) return before
      if (!(await create(name, text))) await replace(name, text)
      const after = await compare(name, text)
      if (after === null) throw new StoreFailed('it accepted a file, and does not have it')
      return after
    },
    async keepsFiles() {
      const newProbe = (): string => `{"probe":"${randomUUID()}"}\n`
      if ((await get(probeName)) === null && !(await create(probeName, newProbe()))) return true
      const currentText = await get(probeName)
      if (currentText === null) throw new StoreFailed('it accepted a file, and does not have it')
      await create(probeName, newProbe())
      return (await get(probeName)) === currentText
    },
    get,
    close,
  }
}

/** The most bytes of a file. */
export const maxFileBytes = 65_536
