import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { ownPort } from '../../support/own-port.ts'

/** A hop between a log and its server that a test can make as bad as it likes. */
export type FaultyHop = {
  /** The server's address by way of this hop. */
  readonly url: string
  /** From now on the server's answers are held back; requests still arrive. */
  holdAnswers(): void
  /** Neither side receives anything from the other, and nothing reports it. */
  freeze(): void
  /** Answers and requests pass again, those that were held back first. */
  release(): void
  /** Breaks every connection; held back answers are lost. */
  cut(): void
  /** New connections are refused until `listen`. */
  refuse(): Promise<void>
  listen(): Promise<void>
}

type Pair = { readonly client: Socket; readonly server: Socket }

/** Listens on loopback until the test ends. */
export const startHop = async (t: TestContext, serverUrl: string): Promise<FaultyHop> => {
  const target = new URL(serverUrl.replace('esdb:', 'http:'))
  const pairs = new Set<Pair>()
  let held = { answers: false, requests: false }

  const hold = (answers: boolean, requests: boolean) => {
    held = { answers, requests }
    for (const { client, server } of pairs) {
      server[answers ? 'pause' : 'resume']()
      client[requests ? 'pause' : 'resume']()
    }
  }
  const drop = (pair: Pair) => {
    pairs.delete(pair)
    pair.client.destroy()
    pair.server.destroy()
  }
  const hop = createServer((client) => {
    const server = connect(Number(target.port), target.hostname)
    const pair = { client, server }
    pairs.add(pair)
    for (const socket of [client, server]) {
      socket.on('error', () => drop(pair))
      socket.on('close', () => drop(pair))
    }
    // Forwarded by hand and not by pipe, which would resume what a test paused.
    client.on('data', (chunk) => server.write(chunk))
    server.on('data', (chunk) => client.write(chunk))
    if (held.answers) server.pause()
    if (held.requests) client.pause()
  })
  const cut = () => {
    for (const pair of pairs) drop(pair)
  }
  const refuse = () => new Promise<void>((resolve) => hop.close(() => resolve()))
  const port = await ownPort()
  const listen = async (): Promise<void> => {
    await once(hop.listen(port, '127.0.0.1'), 'listening')
  }
  await listen()
  t.after(() => {
    cut()
    hop.close()
  })
  return {
    url: `esdb://127.0.0.1:${port}${target.search}`,
    holdAnswers: () => hold(true, false),
    freeze: () => hold(true, true),
    release: () => hold(false, false),
    cut,
    refuse: async () => {
      const closed = refuse()
      cut()
      await closed
    },
    listen,
  }
}
