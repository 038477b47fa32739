/** What a sender is to do, in a process of its own: keep `deliveries` durable first, then send them all. */
export type SendJob = {
  readonly databaseUrl: string
  readonly port: number
  readonly ca: string
  readonly deliveries: number
  readonly endpoints: number
  /** Of the endpoints, how many hang. */
  readonly hanging: number
  /** Attempts at once. */
  readonly concurrency: number
}

/** The URL of the n-th endpoint. The first ones hang. */
export const urlOf = ({ port, hanging }: SendJob, endpoint: number): string =>
  `https://127.0.0.1:${port}${endpoint < hanging ? '/hang' : '/hook'}`

export const payloadOf = (n: number) => ({
  orderId: `ord_${n.toString(16).padStart(32, '0')}`,
  status: 'completed',
  productId: 'residential-premium',
  quantity: 1,
  amountCents: 280,
  currency: 'USD',
  createdAt: '2026-11-21T02:30:00.000Z',
  fulfilledAt: '2026-11-21T02:30:00.000Z',
})

/**
 * Runs a contender on IPC: `ready` when everything is durable, then it starts on `go` and sends `started`. It is ended by
 * its parent.
 */
export const serveContender = (open: (job: SendJob) => Promise<{ start(): Promise<void> | void }>): void => {
  process.on('disconnect', () => process.exit())
  process.on('message', (message: { readonly job: SendJob } | 'go') => {
    if (message === 'go') return
    void open(message.job).then((contender) => {
      process.once('message', () => void contender.start())
      process.send?.('ready')
    })
  })
}
