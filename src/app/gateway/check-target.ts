import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

export type CheckTarget = {
  /** Where checks of rentals go; null: nowhere, so there are none. */
  url(): Promise<URL | null>
  stop(): void
}

/** Says from which address it was asked. */
const listen = async (): Promise<{ readonly server: Server; readonly url: URL }> => {
  const server = createServer((request, response) => {
    response.end(request.socket.remoteAddress ?? '')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  // It alone does not keep the process running.
  server.unref()
  return { server, url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`) }
}

/**
 * What a check of a rented address asks: the operator's own target, or one on this machine's loopback where the sandbox
 * may reach it. Never one that a customer chooses.
 */
export const createCheckTarget = (config: {
  /** FAREBOX_GATEWAY_CHECK_URL. */
  readonly checkUrl: URL | null
  readonly allowLoopback: boolean
}): CheckTarget => {
  let opened: ReturnType<typeof listen> | null = null
  return {
    url: async () => {
      if (config.checkUrl !== null) return config.checkUrl
      if (!config.allowLoopback) return null
      opened ??= listen()
      return (await opened).url
    },
    stop: () => {
      void opened?.then(({ server }) => server.close())
    },
  }
}
