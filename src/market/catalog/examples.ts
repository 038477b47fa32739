/** One example of each of the catalogue's answers, for the interface description. */

export const productExample = {
  id: 'isp-static',
  name: 'Static ISP',
  family: 'isp',
  state: 'active',
  successorId: null,
  available: true,
  shape: 'addresses',
  unit: 'IP',
  delivery: 'addresses',
  renewal: 'extend',
  minQuantity: 1,
  maxQuantity: 500,
  billing: { payg: true, subscription: true, intervals: ['month', 'year'] },
  description: 'Dedicated addresses registered to consumer providers.',
  features: ['One user an address'],
  protocols: ['http', 'https', 'socks5'],
  targeting: ['country', 'period_days'],
  lifecycle: {
    state: 'active',
    since: '2026-11-01T00:00:00.000Z',
    parkedUntil: null,
    retiredAt: null,
    successorId: null,
    aliases: ['static-residential'],
  },
  publishedPrice: { fromCents: 200, unit: 'IP', per: 'IP/30d', currency: 'USD' },
  howTo: [
    {
      step: 1,
      title: 'Quote the price',
      method: 'GET',
      path: '/api/v1/products/isp-static/price?quantity=1&country=USA&period_days=30',
      headers: {},
      body: null,
    },
  ],
}

export const quoteExample = {
  productId: 'isp-static',
  quantity: 5,
  unitPriceCents: 280,
  amountCents: 1400,
  currency: 'USD',
  billingType: 'PAYG',
  available: true,
  targeting: { country: 'USA', period_days: 30 },
}

export const priceListExample = {
  productId: 'isp-static',
  unit: 'IP',
  country: 'USA',
  quantity: 1,
  currency: 'USD',
  countries: [{ alpha3: 'USA', name: 'United States' }],
  lines: [
    { days: 7, period: '7 days', available: true, listCents: 120 },
    { days: 30, period: '30 days', available: true, listCents: 280 },
  ],
}

export const optionsExample = {
  productId: 'isp-static',
  unit: 'IP',
  minQuantity: 1,
  maxQuantity: 500,
  countries: [{ alpha3: 'USA', name: 'United States', available: 120 }],
  periods: [
    { days: 7, label: '7 days' },
    { days: 30, label: '30 days' },
  ],
}
