import { execFile } from 'node:child_process'
import { access } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

/** What we compare with has a package file of its own: its dependencies conflict with the service's. */
export const peerDirectory = fileURLToPath(new URL('../peers/', import.meta.url))

/**
 * Installs the peers from their lock file when they are not there yet.
 * @throws when npm fails, e.g. without a network
 */
export const installPeers = async (): Promise<void> => {
  const names = ['@eventide/message-db', 'graphile-worker', 'proxy-chain']
  const there = await Promise.all(names.map((name) => access(`${peerDirectory}node_modules/${name}`))).then(
    () => true,
    () => false,
  )
  if (!there) await promisify(execFile)('npm', ['ci', '--no-audit', '--no-fund'], { cwd: peerDirectory })
}
