import { type Answers, count, link, links, list, number, picture, text, word } from './fields.ts'

export const amazon: Answers = {
  shop: {
    name: text('Name of the creator', 'Example Creator'),
    avatar: picture('Picture of the creator'),
    description: text('What the creator writes about the storefront', 'Things I use in my kitchen'),
    socials: links('Accounts of the creator on other platforms', '@example'),
    lists: list('Lists of products', {
      url: link('Link to the list', 'shop/example/list/1'),
      title: text('Title of the list', 'Kitchen basics'),
      itemCount: count('products in the list', 72),
      image: picture('Picture of the list'),
    }),
    trendingPicks: list('Products that sell well just now', {
      url: link('Link to the product', 'product/1'),
      image: picture('Picture of the product'),
      price: number('Price', 9.99, 'currency of the storefront'),
      discount: number('Discount', 29, 'percent'),
    }),
    curations: list('Collections of posts', {
      url: link('Link to the collection', 'shop/example/collection/1'),
      title: text('Title of the collection', 'Autumn kitchen'),
      postCount: count('posts in the collection', 93),
      image: picture('Picture of the collection'),
    }),
    pageToken: word('Position of the next products; no input accepts it', 'amzn1.ideas.EXAMPLE00001'),
  },
}
