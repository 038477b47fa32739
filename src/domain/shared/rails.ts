/** Rails that a hosted page can take money on (docs/reference/api.md, "Errors", `unsupported_method`). */
export const rails = [
  'card',
  'crypto',
  'alipay',
  'wechat',
  'upi',
  'momo',
  'qris',
  'pix',
  'dana',
  'fpx',
  'oxxo',
  'boleto',
  'paymaya',
  'grabpay_ph',
] as const
