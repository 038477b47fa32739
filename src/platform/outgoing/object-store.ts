import { randomUUID } from 'node:crypto'
import { isAbsolute, resolve } from 'node:path'

/** Where small files are kept: a folder, an address that takes PUT and GET, or a bucket. */
export type StoreLocation =
  /** Absolute. It must be there: a folder that is made by itself hides a disk that is not mounted. */
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

/** Null when the text names no such place. Secrets have no place in it: user, password and query are refused. */
export const parseStoreLocation = (text: string): StoreLocation | null => {
  if (text.length > 2_000) return null
  if (text.startsWith('file:')) return folderOf(text)
  if (text.startsWith('s3://')) return bucketOf(text)
  return httpOf(text)
}

/** The place as it is written in settings and told in messages; the same place has one name. */
export const storeLocationText = (place: StoreLocation): string => {
  switch (place.kind) {
    case 'folder':
      return `file:${place.path}`
    case 'http':
      return place.url
    case 's3':
      return `s3://${place.bucket}/${place.prefix}`
    default:
      return place satisfies never
  }
}

/**
 * A place for small files that are written once and never changed. What somebody else wrote under a name is left as it
 * is and told.
 */
export type Store = {
  /**
   * `stored`: the place has it now, byte for byte, whoever put it there. `other`: under that name it has something else.
   * The place is read before and after the write.
   * @throws StoreFailed
   */
  put(name: string, text: string): Promise<'stored' | 'other'>
  /** Null where nothing has that name. @throws StoreFailed */
  get(name: string): Promise<string | null>
  /**
   * Whether a file that is there outlasts a write that must only make a new one. It is tried with a file that stays there,
   * `probeName`.
   * @throws StoreFailed
   */
  keepsFiles(): Promise<boolean>
  close(): Promise<void>
}

/** What one kind of place can do. Each throws StoreFailed. */
export type StoreOperations = Pick<Store, 'get' | 'close'> & {
  /** Makes a file where none has that name, and leaves one that is there. False: the place cannot do that; nothing was written. */
  create(name: string, text: string): Promise<boolean>
  /** Writes a file, whatever has that name. */
  replace(name: string, text: string): Promise<void>
}

/** The place could not be reached or said no: worth another try. The message holds no secret and no text of the other side. */
export class StoreFailed extends Error {
  override readonly name = 'StoreFailed'
}

/** Without an ending, so that no pattern for the files of a place includes it. */
export const probeName = 'farebox-probe'

/** A store over what a kind of place can do. */
export const writeOnceStore = ({ create, replace, get, close }: StoreOperations): Store => {
  const compare = async (name: string, text: string): Promise<'stored' | 'other' | null> => {
    const kept = await get(name)
    if (kept === null) return null
    return kept === text ? 'stored' : 'other'
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
      const another = (): string => `{"probe":"${randomUUID()}"}\n`
      if ((await get(probeName)) === null && !(await create(probeName, another()))) return true
      const kept = await get(probeName)
      if (kept === null) throw new StoreFailed('it accepted a file, and does not have it')
      await create(probeName, another())
      return (await get(probeName)) === kept
    },
    get,
    close,
  }
}

/** No file of a store is longer. */
export const maxFileBytes = 65_536
