import { mkdir, stat } from 'node:fs/promises'
import { dirname } from 'node:path'

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )

/**
 * Makes a folder and those above it; one that is there is kept. Node's own `recursive` never ends where a folder takes no
 * folders and says ENOENT, as /proc does.
 * @throws the system's error
 */
export const makeFolder = async (path: string): Promise<void> => {
  try {
    await mkdir(path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const parent = dirname(path)
    if (code === 'EEXIST') {
      if ((await stat(path)).isDirectory()) return
      throw error
    }
    if (code !== 'ENOENT' || (await exists(parent))) throw error
    await makeFolder(parent)
    await makeFolder(path)
  }
}
