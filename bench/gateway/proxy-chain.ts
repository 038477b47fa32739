import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { peerDirectory } from '../append/peers.ts'

/** proxy-chain as a process of its own, with authentication. Prints a line when it listens. */
const [username = '', password = '', port = '0'] = process.argv.slice(2)

type Server = { readonly port: number; listen(): Promise<void> }
type Options = {
  readonly port: number
  readonly host: string
  prepareRequestFunction(given: { username: string; password: string }): object
}
type ProxyChain = { readonly Server: new (options: Options) => Server }

const path = createRequire(`${peerDirectory}package.json`).resolve('proxy-chain')
const { Server } = (await import(pathToFileURL(path).href)) as ProxyChain
const server = new Server({
  port: Number(port),
  host: '127.0.0.1',
  prepareRequestFunction: (given) => ({
    requestAuthentication: given.username !== username || given.password !== password,
  }),
})
await server.listen()
process.stdout.write(`${server.port}\n`)
