import { mkdir, stat } from 'node:fs/promises'
import { dirname } from 'node:path'

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )

/**
 * Creates a folder and its parents, if they do not exist. Node's own `recursive` never ends in a folder that accepts
 * no folders and answers ENOENT, such as /proc.
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
