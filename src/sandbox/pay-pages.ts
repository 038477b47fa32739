import type { FastifyInstance, FastifyReply } from 'fastify'
import { notFoundPage } from './frame.ts'
import type { Hands } from './hands.ts'
import { payPage } from './page.ts'
import type { Till } from './till.ts'

/** `/pay/{id}`: the pay page of an invoice, and what its buttons do. */
export const payPageRoutes = (app: FastifyInstance, till: Till, { find, deedOf }: Hands): void => {
  const html = (reply: FastifyReply, status: number, text: string) =>
    reply.code(status).header('content-type', 'text/html; charset=utf-8').send(text)
  const gone = notFoundPage('No invoice has this address')
  app.register(async (pageApp) => {
    pageApp.addContentTypeParser(
      'application/x-www-form-urlencoded',
      { parseAs: 'string' },
      (_request, body, done) => done(null, body),
    )
    pageApp.get('/pay/:id', async (request, reply) => {
      const invoice = await find((request.params as { id: string }).id)
      return invoice ? html(reply, 200, payPage(invoice, null)) : html(reply, 404, gone)
    })
    pageApp.post('/pay/:id', async (request, reply) => {
      const invoice = await find((request.params as { id: string }).id)
      if (!invoice) return html(reply, 404, gone)
      const form = new URLSearchParams(String(request.body ?? ''))
      const [kind = '', named] = (form.get('deed') ?? '').split(':')
      const cents = Number(kind === 'amount' ? form.get('cents') : named)
      const steps = { twice: ['pay', 'pay'], late: ['expire', 'pay'], amount: ['pay'] }[kind] ?? [kind]
      let said: string | null = null
      for (const step of steps) {
        const deed = deedOf(invoice, step, cents)
        const done = deed ? await till.act(invoice.id, deed) : { refused: 'there is no such button' }
        if ('refused' in done) said = done.refused
      }
      if (said === null) return reply.redirect(`/pay/${invoice.id}`, 303)
      return html(reply, 409, payPage((await find(invoice.id)) ?? invoice, said))
    })
  })
}
