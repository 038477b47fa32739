import { open, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { FileExists, writeFileAtomically } from './file-sink.ts'
import { maxFileBytes, type Store, StoreFailed, writeOnceStore } from './object-store.ts'

const codeOf = (error: unknown): string => {
  const { code, cause } = error as { code?: string; cause?: { code?: string } }
  return code ?? cause?.code ?? 'fault'
}

/** All users may read the files. */
const mode = 0o644

/** An existing folder, local or mounted. */
export const folderStore = (path: string): Store => {
  const failed = (problem: string, error: unknown): StoreFailed =>
    new StoreFailed(`the folder ${path} ${problem} (${codeOf(error)})`, { cause: error })

  const assertThere = async (): Promise<void> => {
    const found = await stat(path).catch((error) => {
      throw failed('cannot be found', error)
    })
    if (!found.isDirectory()) throw new StoreFailed(`${path} is no folder`)
  }

  const read = async (name: string): Promise<string | null> => {
    await assertThere()
    try {
      const file = await open(join(path, name), 'r')
      try {
        const { size } = await file.stat()
        if (size > maxFileBytes)
          throw new StoreFailed(`${join(path, name)} holds more than ${maxFileBytes} bytes`)
        return await file.readFile('utf8')
      } finally {
        await file.close()
      }
    } catch (error) {
      if (error instanceof StoreFailed) throw error
      if (codeOf(error) === 'ENOENT') return null
      throw failed('cannot be read', error)
    }
  }

  const write = async (name: string, text: string, replace: boolean): Promise<void> => {
    try {
      await writeFileAtomically(join(path, name), text, { mode, replace })
    } catch (error) {
      if (!(error instanceof FileExists)) throw failed('cannot be written to', error)
    }
  }

  return writeOnceStore({
    async create(name, text) {
      await write(name, text, false)
      return true
    },
    replace: (name, text) => write(name, text, true),
    get: read,
    close: async () => undefined,
  })
}
