import type { OrderDetails } from '../../terms/order-details.ts'

/** What a customer is told of an order that it paid for on a pay page. Plain text, below Telegram's 4,096 characters. */
export const orderText = (
  order: Pick<OrderDetails, 'orderId' | 'productId' | 'quantity' | 'unit'>,
  outcome: 'placed' | 'failed',
  merchantName: string | null,
): string => {
  const goods = `${order.quantity} ${order.unit} of ${order.productId}`
  const said =
    outcome === 'placed'
      ? `Thank you: your payment arrived and your order is ready, ${goods}.`
      : `Your payment arrived, but the order could not be placed: ${goods}. The money is kept as your credit.`
  return [said, `Order ${order.orderId}`, ...(merchantName === null ? [] : [merchantName])].join('\n')
}
