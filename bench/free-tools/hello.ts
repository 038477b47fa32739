import Fastify from 'fastify'

/** Fastify as its own first example has it, in a process of its own. Prints where it listens. */
const app = Fastify()
app.get('/', async () => ({ hello: 'world' }))
process.stdout.write(`${await app.listen({ host: '127.0.0.1', port: 0 })}\n`)
